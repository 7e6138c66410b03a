"""How are the statistics of batch norm measured over all clients?"""
