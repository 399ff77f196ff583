// Functions of threads that Verilator's runtime calls; there is one thread.
int pthread_getaffinity_np(unsigned long thread, unsigned long size, void *set) { return 22; }
int pthread_setaffinity_np(unsigned long thread, unsigned long size, void *set) { return 22; }
int sched_getcpu(void) { return 0; }
int __cxa_thread_atexit(void *destroy, void *object, void *handle) { return 0; }
