"""The kill test: the publisher, or what it works with, killed at random moments until all is done."""
