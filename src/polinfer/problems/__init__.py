"""Problems: the registry, the built-in domains, tables, and adapters to other libraries."""
