"""Result directories, the constraints of a run and its verdict. Imports no stage."""
