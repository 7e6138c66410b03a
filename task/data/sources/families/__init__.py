"""What several data sets share."""
