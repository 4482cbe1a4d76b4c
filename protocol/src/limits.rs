//! Every limit that both sides of the wire must know, with its arithmetic.
