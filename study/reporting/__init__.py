"""Tables, figures and the report, from kept results."""
