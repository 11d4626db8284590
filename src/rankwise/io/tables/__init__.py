"""Tables with named columns: CSV, TSV, Parquet."""
