//! Reads IatroCache (.iac) files: mapped, positional or in memory
