# The file-based catalog, for OLM: a ClusterCatalog, or a CatalogSource that extracts its content from /configs.
FROM scratch

LABEL operators.operatorframework.io.index.configs.v1=/configs

COPY catalog/ /configs/
