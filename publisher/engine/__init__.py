"""Runs the work of a run: surveys, plans lanes, compares tables, sends.

``tasks`` holds the functions that process one split or one lane; ``local`` runs them in processes of
this machine, ``spark`` on Spark.
"""
