"""What libraries compute on a GPU: frozen records without a library's names in them."""
