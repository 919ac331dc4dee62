//! Tests of this workspace against the reference packages and public files
