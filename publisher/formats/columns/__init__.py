"""Work by the column, for all formats: typed columns, byte areas, texts, names, lanes of keys."""
