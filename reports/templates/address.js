// The secret is in a cookie by now; an address that is copied or kept need not have it.
history.replaceState(null, "", location.pathname + location.hash);
