//! Binary cache for multimodal medical data: write once, read millions of records at memory speed
