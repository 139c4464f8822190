"""Checks the Helm chart with Helm itself and with Kubernetes' own schemas: `make charts`."""
