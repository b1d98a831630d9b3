module github.com/hybrid-helm-operator/hybrid-helm-operator/tools/node

go 1.26.0
