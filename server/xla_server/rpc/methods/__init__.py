"""The rpcs, one module per group, each with a table METHODS: name -> entry of `method_table`."""
