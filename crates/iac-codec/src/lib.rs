//! Record codecs of IatroCache (.iac) files
