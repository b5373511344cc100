module kubernetes_pause

go 1.24.0
