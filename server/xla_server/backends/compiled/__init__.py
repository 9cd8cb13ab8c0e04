"""The platform `cpu`, and the part that all compiled platforms share."""
