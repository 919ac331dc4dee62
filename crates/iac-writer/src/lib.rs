//! Writes IatroCache (.iac) files in one pass, published whole or not at all
