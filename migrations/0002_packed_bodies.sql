-- How a delivery's body is packed; NULL where it is the raw bytes.

ALTER TABLE deliveries ADD COLUMN packing TEXT;
