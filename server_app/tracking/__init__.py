"""Where do a run's metrics go besides its record?"""
