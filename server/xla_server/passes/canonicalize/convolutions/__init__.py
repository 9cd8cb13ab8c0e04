"""Convolutions as dots, as im2col products, with channels last, or in a GPU library's form."""
