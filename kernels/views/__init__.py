"""Views of a kernels document: tables and notes, which the terminal and a page show. They read documents only."""
