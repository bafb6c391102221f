"""What runs in the training process: objects, arrays, tensors and who holds them.

Frameworks are looked at through `sys.modules`, never imported.
"""
