"""The program as a script for ``spark-submit``; imports of ``publisher.cli`` find the package."""

from publisher.cli.main import main

if __name__ == "__main__":
    main()
