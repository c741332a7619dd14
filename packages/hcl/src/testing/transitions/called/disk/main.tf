variable "running" {
  type = bool
}

variable "name" {
  type = string
}

resource "terraform_data" "disk" {
  input = var.name
}

resource "terraform_data" "mount" {
  count = var.running ? 1 : 0
  input = terraform_data.disk.id
}

output "attached" {
  value = length(terraform_data.mount) > 0
}
