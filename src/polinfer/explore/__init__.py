"""`polinfer explore`: a page in the browser on which a problem is drawn and its posterior answers."""
