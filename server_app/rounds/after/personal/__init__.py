"""How is the final model fine-tuned at each client?"""
