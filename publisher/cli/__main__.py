"""Runs the program: ``python -m publisher.cli``."""

from publisher.cli.main import main

if __name__ == "__main__":
    main()
