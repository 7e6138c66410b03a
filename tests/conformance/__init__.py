"""Methods compared with references in float64, written from the papers and releases."""
