"""Runs the work of a run: surveys, plans lanes, compares tables, sends, counts activity.

``tasks`` holds the functions that process one split or one lane; ``spark`` runs them on Spark.
"""
