"""How objects look in notebooks: tables and graphs as HTML."""
