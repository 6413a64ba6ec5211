"""What a page is made of, and the page: self-contained, every word escaped. Knows no documents."""
