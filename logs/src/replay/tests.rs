//! Tests of a replay as a whole.
