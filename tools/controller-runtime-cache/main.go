// controller-runtime-cache keeps the kinds that the operator reads in a cache of controller-runtime, as an operator in
// Go would. With -strip it leaves out managedFields, as controller-runtime's documentation advises for large clusters.
package main

import (
	"flag"
	"fmt"
	"log"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

func main() {
	strip := flag.Bool("strip", false, "leave out managedFields")
	flag.Parse()
	options := cache.Options{Scheme: scheme.Scheme}
	if *strip {
		options.DefaultTransform = cache.TransformStripManagedFields()
	}
	ctx := ctrl.SetupSignalHandler()
	kinds, err := cache.New(config.GetConfigOrDie(), options)
	if err != nil {
		log.Fatal(err)
	}
	for _, kind := range []client.Object{
		&storagev1.CSINode{}, &storagev1.CSIDriver{}, &corev1.Pod{}, &corev1.Node{}, &batchv1.CronJob{}, &appsv1.DaemonSet{},
		&appsv1.Deployment{}, &batchv1.Job{}, &appsv1.ReplicaSet{}, &corev1.ReplicationController{}, &appsv1.StatefulSet{},
		&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{}, &nodev1.RuntimeClass{},
	} {
		// What it begins ends with the process; the objects are read from the start of the cache on.
		if _, err := kinds.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			log.Fatal(err)
		}
	}
	go func() {
		if kinds.WaitForCacheSync(ctx) {
			fmt.Println("synced")
		}
	}()
	if err := kinds.Start(ctx); err != nil {
		log.Fatal(err)
	}
}
