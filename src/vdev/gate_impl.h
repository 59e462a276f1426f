/* Private to src/vdev: who is inside a tree (gate.c). */
#ifndef VDEV_GATE_IMPL_H
#define VDEV_GATE_IMPL_H

#include <stdbool.h>

struct vdev;
struct vdev_gate;
struct vdev_io;

struct vdev_gate *gate_new(void); /* NULL: no memory */
void gate_free(struct vdev_gate *g);

/* A gate that is NULL is always open: vdevs outside a tree have none. */
unsigned gate_enter(struct vdev_gate *g);
void gate_leave(struct vdev_gate *g, unsigned slot);
/* True: inside, *slot for leaving. False: the tree is locked, and the request is submitted again
 * (vdev_submit) when it is not. Never waits: threads that complete requests submit others. */
bool gate_admit(struct vdev_gate *g, struct vdev_io *io, unsigned *slot);
/* Memory that somebody may still look at lives as long as the gate. */
int gate_retire_room(struct vdev_gate *g); /* for one more; -ENOMEM */
void gate_retire(struct vdev_gate *g, void *memory);

#endif
