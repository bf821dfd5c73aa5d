"""What a string says beside the names in it: qualifiers, several things in a cell, spellings."""
