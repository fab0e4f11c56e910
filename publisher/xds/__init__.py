"""XDS documents: associations, values, operations, envelope."""
