variable "region" {}

data "coder_workspace_tags" "zone" {
  tags = {
    zone = "${var.region}-1"
  }
}

output "zone" {
  value = var.region
}
