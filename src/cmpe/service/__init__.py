"""`cmpe serve`: answers over HTTP, in batches of the requests that arrive together, and a page."""
