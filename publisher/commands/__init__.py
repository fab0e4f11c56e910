"""Commands of the program that have modules of their own."""
