"""The rpcs, one module per group, each with a table METHODS of name -> how it is answered."""
