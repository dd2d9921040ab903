"""Tmux agents: programs in a pane of tmux, told by typing one proven line."""
