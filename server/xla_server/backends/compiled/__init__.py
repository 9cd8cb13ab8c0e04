"""The platform `cpu`, and what all compiled platforms share."""
