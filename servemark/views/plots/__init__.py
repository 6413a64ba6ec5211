"""Documents as figures: what is drawn is prepared by pure functions over saved documents."""
