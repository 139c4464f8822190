"""The evaluation of "Multistage Adaptive Load Balancing for Big Active Data Publish Subscribe Systems" (DEBS '19),
claim by claim, on our simulator."""
