"""One server in several processes, on one machine or on many, joined by MPI.

`mpirun -n K xla-server serve --distributed mpi` starts them. Rank 0 answers clients and has the
sessions; device d is in rank d // devices. `leader` is rank 0's part of an execution on devices of
several ranks, `follower` that of the others.

`transport` connects the ranks: `mailbox` carries records between rank 0 and each other rank
(`messages`), and small arrays are sent as `parcels`, by messages from each to each. `exchange`
transfers arrays of collectives among the ranks of a group, by MPI's collectives.
An exchange by MPI's collectives begins when rank 0 knows that every rank of the group has arrived
(`arrivals`), so no rank ever waits inside MPI for one that does something else. Parcels need no
permission of rank 0: the receiver polls for them, and can stop.
Ranks of one machine share memory (`shared_regions`), where participants meet in native code.
"""
