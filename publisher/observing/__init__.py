"""What those who operate a following publisher see of it: log lines, metrics, a trace."""
