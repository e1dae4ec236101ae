module windowsstorage.dev/tools/csi-proxy-1.1.3

go 1.26.0

// A dependency's own godebug line does not count: without this one csi-proxy misjudges mount points.
godebug winsymlink=0

tool github.com/kubernetes-csi/csi-proxy/cmd/csi-proxy

require (
	github.com/Microsoft/go-winio v0.6.1 // indirect
	github.com/go-logr/logr v1.2.0 // indirect
	github.com/golang/protobuf v1.5.3 // indirect
	github.com/kubernetes-csi/csi-proxy v1.1.3 // indirect
	github.com/kubernetes-csi/csi-proxy/client v1.1.3 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	golang.org/x/mod v0.8.0 // indirect
	golang.org/x/net v0.9.0 // indirect
	golang.org/x/sys v0.11.0 // indirect
	golang.org/x/text v0.9.0 // indirect
	golang.org/x/tools v0.6.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20230525234030-28d5490b6b19 // indirect
	google.golang.org/grpc v1.57.0 // indirect
	google.golang.org/protobuf v1.31.0 // indirect
	k8s.io/klog/v2 v2.100.1 // indirect
)
