"""One server in several processes, on one machine or on many, joined by MPI.

`mpirun -n K xla-server serve --distributed mpi` starts them. Rank 0 answers clients and has the
sessions; device d is in rank d // devices, the number of devices of each rank. `leader` is rank 0's
part of an execution on devices of several ranks, `follower` that of the others.

`transport` has the means of communication: `mailbox` carries control messages (`messages`) between
rank 0 and each other rank, and `parcels` carries small arrays directly between any two ranks.
`exchange` runs MPI's collectives among the ranks of a group, for large arrays. Such a collective
begins when rank 0 knows that every rank of the group has arrived (`arrivals`), so no rank ever
waits inside MPI for one that does something else. Parcels need no permission of rank 0: their
receiver polls for them, and can stop. Ranks of one machine share memory (`shared_regions`), in
which participants meet in native code.
"""
