"""What the formats share to read by the column: typed columns, byte areas, texts, names, lanes of keys."""
