//! Operations on IatroCache (.iac) files: packing, extracting, verifying, salvaging, selecting
